from cel_expr_python import cel as cel
