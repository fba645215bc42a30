-- title: Short titles
-- about: Titles of fewer than 10 characters.
-- advice: Say a little more: a title is read without its page.
-- group: Titles and descriptions
-- kind: problem
select url, length(title) as characters, title
from html_pages
where length(title) < 10
order by characters, url
