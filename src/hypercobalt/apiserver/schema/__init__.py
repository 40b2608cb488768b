"""What a value may be: compiled schemas, their judgement, CEL rules."""
