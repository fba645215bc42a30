-- Pages and the index of their words. The index keeps no text of its own (external content): FTS5 reads it from the row
-- for snippets, and triggers hand it over whole when a row goes, so that both always change in one transaction.

CREATE TABLE pages (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    url        TEXT NOT NULL,
    host       TEXT NOT NULL,
    domain     TEXT NOT NULL,
    language   TEXT NOT NULL,
    fetched_at REAL NOT NULL,
    title      TEXT NOT NULL,
    text       TEXT NOT NULL
);

CREATE TABLE notes (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE VIRTUAL TABLE words USING fts5 (
    title, text,
    content = 'pages', content_rowid = 'number',
    tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TRIGGER page_comes AFTER INSERT ON pages BEGIN
    INSERT INTO words (rowid, title, text) VALUES (new.number, new.title, new.text);
END;

CREATE TRIGGER page_goes AFTER DELETE ON pages BEGIN
    INSERT INTO words (words, rowid, title, text) VALUES ('delete', old.number, old.title, old.text);
END;
