-- title: Other sites that are linked to
-- about: Hosts from which no page was stored, by the number of links to them.
-- advice: Check that you want to send your visitors there.
-- group: Structure
-- kind: overview
-- chart: host, links
with linked as (select target, count(*) as links from links group by target)
select u.url_host_name as host, sum(l.links) as links, count(*) as urls, min(u.url) as example
from linked l
join urls u on u.url = l.target
where u.url_host_name not in (select url_host_name from pages)
group by host
order by links desc, host
