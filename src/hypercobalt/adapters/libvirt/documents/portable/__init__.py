"""Domain documents rewritten from an allow-list, before another host defines or starts them.

A definition that a host has stored, or that another host's libvirtd hands out, is hostile input:
QEMU and libvirt open, create and delete as root what it names. So nothing of its text is passed on.
The document is parsed (`..tree`), each element, attribute and value is looked up in `table`, and
what is written (`writing`) consists of the table's names and of values that fit the table's rules.
What the table does not have is refused, with the element and the rule; what libvirt fills in by
itself on the new host is dropped.

`rules` holds the types of the table, `values` the forms of values, `paths` the files, `inert` the
parts that nothing interprets, `walk` the walk, `whole` what several elements have to agree on.
`rewriting` rewrites a definition; `judging` names what keeps one on its host, by the same table.
Pure: no I/O.
"""
