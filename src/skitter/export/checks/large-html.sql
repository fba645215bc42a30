-- title: Large HTML pages
-- about: HTML pages of more than one MiB.
-- advice: Divide them, or move data out of the HTML.
-- group: Speed and size
-- kind: problem
select url, size as bytes, title from html_pages where size > 1048576 order by size desc, url
