"""The methods of `Table`, by what they are about.

Owns: one class for each subject; `table.table.Table` is made of all of them. Each method calls the rooms below.
Must not know: how its operation works. Begin with: `changes`, whose methods are used most.
"""
