-- title: URLs by state
-- about: What has become of the URLs that are known.
-- advice: Those that wait are fetched when the crawl goes on: skitter resume.
-- group: The crawl
-- kind: overview
-- chart: state, urls
select state, count(*) as urls from urls group by state order by urls desc, state
