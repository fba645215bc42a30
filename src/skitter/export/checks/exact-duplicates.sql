-- title: Identical pages
-- about: Pages whose content is, octet for octet, that of another page.
-- advice: Redirect to one of them, or name it as canonical.
-- group: Structure
-- kind: problem
select url, duplicate_of from pages where identical and duplicate_of is not null order by duplicate_of, url
