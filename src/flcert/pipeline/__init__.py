"""Make a run (data, groups, models, votes, certificates, report), and work with a finished one."""
