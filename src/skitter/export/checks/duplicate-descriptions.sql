-- title: Descriptions used several times
-- about: Descriptions that more than one HTML page has.
-- advice: Describe each page, or leave the description out.
-- group: Titles and descriptions
-- kind: problem
select description, count(*) as pages, min(url) as example, max(url) as another
from html_pages
where description is not null
group by description
having count(*) > 1
order by pages desc, description
