-- title: Server errors
-- about: URLs whose last answer was a 5xx.
-- advice: Look for them in the server's own log; a visitor sees the same error.
-- group: Errors
-- kind: problem
select url, fetch_status as status, attempts, reason, parent as first_found_on
from urls
where fetch_status >= 500
order by url
