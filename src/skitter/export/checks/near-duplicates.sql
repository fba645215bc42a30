-- title: Nearly identical pages
-- about: Pages whose text is nearly that of another page.
-- advice: Merge them, or say what is different.
-- group: Structure
-- kind: problem
select url, duplicate_of, title from pages where not identical and duplicate_of is not null order by duplicate_of, url
