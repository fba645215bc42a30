"""Jobs: crawls that are started again and again, by hand or by the clock, and the history of their runs.

`model.py` has the values, `cron.py` says when a job is due, `rules.py` what becomes of a due time and of a run that ended;
both are pure. `ports.py` is the store of jobs and runs, `scheduler.py` runs what is due, `child.py` is one run as a process,
`telling.py` tells people how runs ended, and `files.py` knows where everything lies.
"""
