-- title: Slow pages
-- about: Pages that took two seconds or more until their answer was complete.
-- advice: Look for what takes long on the server; visitors leave after a few seconds.
-- group: Speed and size
-- kind: problem
select url, round(max(seconds), 2) as seconds, max(bytes) as bytes
from requests
where purpose <> 'robots' and fault is null
group by url
having max(seconds) >= 2
order by seconds desc, url
