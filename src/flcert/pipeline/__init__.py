"""Making a run: data, groups, models, votes, certificates, report; and what can be done with one."""
