-- title: Pages that no sitemap lists
-- about: HTML pages that may be indexed and are not in a sitemap, on hosts that have one.
-- advice: Add them, if search engines should find them soon.
-- group: What search engines are told
-- kind: problem
with listing as (select distinct url_host_name from urls where listed_by is not null and purpose = 'page')
select p.url, p.title
from html_pages p
join urls u on u.key = p.key
where u.listed_by is null and p.robots_index and p.url_host_name in (select url_host_name from listing)
order by p.url
