-- title: Sitemap entries that are no pages
-- about: URLs that a sitemap or feed lists and that do not answer 200, or ask for noindex.
-- advice: Take them out of the sitemap.
-- group: What search engines are told
-- kind: problem
select u.url, coalesce(cast(u.fetch_status as varchar), u.reason, u.state) as answer,
    coalesce(not p.robots_index, false) as noindex
from urls u
left join pages p on p.key = u.key
where u.listed_by is not null and u.purpose = 'page' and u.state in ('crawled', 'failed', 'refused')
    and (coalesce(u.fetch_status, 0) <> 200 or not coalesce(p.robots_index, true))
order by u.url
