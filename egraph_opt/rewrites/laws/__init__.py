"""Laws written by hand, one file per family; each file ends with ``RULES``.

They stay only until the generator finds them; what no generator can find, definitions of operators, stays for good.
"""
