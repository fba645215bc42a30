-- title: Translations that do not link back
-- about: Pages that name a translation (hreflang) which was fetched and does not name them.
-- advice: Let both pages name each other; otherwise search engines ignore it.
-- group: What search engines are told
-- kind: problem
with named as (
    select url, key, unnest(map_entries(cast(cast(alternates as json) as map(varchar, varchar)))) as one
    from html_pages
    where alternates is not null
)
select n.url, n.one.key as language, n.one.value as translation
from named n
join html_pages t on t.url = n.one.value
where t.key <> n.key and not exists (select 1 from named back where back.url = t.url and back.one.value = n.url)
order by n.url, language
