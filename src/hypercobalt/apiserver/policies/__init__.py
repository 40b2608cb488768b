"""ValidatingAdmissionPolicies: which writes they are about, and whether they let them pass."""
