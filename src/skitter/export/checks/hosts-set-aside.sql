-- title: Hosts that were given up
-- about: Hosts from which nothing is fetched any more, and why.
-- advice: Name one of their pages as a seed again to try once more.
-- group: The crawl
-- kind: problem
select url_host_name as host, reason, detail, errors, pages from hosts where reason is not null order by host
