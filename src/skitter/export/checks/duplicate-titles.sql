-- title: Titles used several times
-- about: Titles that more than one HTML page has.
-- advice: Say in each title what only this page is about.
-- group: Titles and descriptions
-- kind: problem
select title, count(*) as pages, min(url) as example, max(url) as another
from html_pages
where title is not null
group by title
having count(*) > 1
order by pages desc, title
