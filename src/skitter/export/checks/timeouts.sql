-- title: Time-outs
-- about: Requests that were not answered in time, by URL.
-- advice: Find out why the server is slow there; a visitor waits as long.
-- group: Errors
-- kind: problem
select url, count(*) as times, max(fetch_time) as last_time
from requests
where fault = 'timeout'
group by url
order by times desc, url
