-- title: Errors that say they are fine
-- about: Pages with a 2xx status whose title speaks of an error.
-- advice: Answer with 404 or 410, so that search engines and other programs understand.
-- group: Errors
-- kind: problem
select url, title
from html_pages
where regexp_matches(lower(coalesce(title, '')), '^404\b|\berror 404\b|\b(not found|page missing|seite nicht gefunden|page introuvable|no encontrada)\b')
order by url
