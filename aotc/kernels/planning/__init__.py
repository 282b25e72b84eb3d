"""Plans of kernels: which ops have one, and its schedule; a file for each family.

`plan` makes a `Schedule` of an op and a machine, or says that there is no kernel;
`workgroups` says how many parts the work then has. What is chosen here is data: nothing
of it depends on the code that is written (`aotc.kernels.families` is the table). What
several families ask are files, too: `tile` and `joined` of products, `stages` of
chains, `reductions`, `views` of what lies in memory, and `prologue`.
"""
