-- title: Requests over time
-- about: Requests and octets by the hour, in UTC.
-- advice: Nothing to do: this is how busy the crawl was.
-- group: The crawl
-- kind: overview
-- chart: hour, requests, columns
select strftime(date_trunc('hour', fetch_time), '%Y-%m-%d %H:00') as hour, count(*) as requests, sum(bytes) as bytes
from requests
group by hour
order by hour
