-- title: Hosts by how fast they answer
-- about: The time until a whole answer was there, by host: half of all, nineteen of twenty, the slowest.
-- advice: A host with a large difference between the first two is overloaded at times.
-- group: Speed and size
-- kind: overview
-- chart: host, median_seconds
select url_host_name as host, count(*) as requests, round(median(seconds), 3) as median_seconds,
    round(quantile_cont(seconds, 0.95), 3) as p95_seconds, round(max(seconds), 3) as slowest
from requests
where fault is null
group by host
order by median_seconds desc, host
