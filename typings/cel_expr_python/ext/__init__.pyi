from cel_expr_python.ext import ext_optional as ext_optional
from cel_expr_python.ext import ext_strings as ext_strings
