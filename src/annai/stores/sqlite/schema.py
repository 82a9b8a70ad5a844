"""What does an index file look like? One of an older version is emptied, and filled again from the documents."""

APPLICATION_ID = 0x616E6E61
"""`anna` in ASCII: marks an SQLite file as annai's."""

VERSION = 12
"""Kept as SQLite's `user_version`; to be raised with every change below."""

SCHEMA = """
    CREATE TABLE collections (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        description TEXT NOT NULL,
        source TEXT NOT NULL,
        enabled INTEGER NOT NULL,
        imported_at TEXT NOT NULL,
        embedder TEXT NOT NULL,
        settings TEXT NOT NULL,
        -- What an import was told of the sizes of pieces; NULL: the settings say it.
        chunk_size INTEGER,
        chunk_overlap INTEGER,
        -- Which machine indexes it, where machines share an index, and on which file system its folder was.
        owner TEXT NOT NULL,
        origin TEXT NOT NULL,
        -- What the embedder made of a fixed text: models/probe.py.
        probe TEXT NOT NULL
    ) STRICT;

    -- What is known of every file, whether or not it became a document.
    CREATE TABLE files (
        id INTEGER PRIMARY KEY,
        collection_id INTEGER NOT NULL,
        path TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        hash TEXT NOT NULL,
        problem_kind TEXT,
        problem_reason TEXT,
        -- When its content or status last changed: what was written with the old size and time is noticed by it.
        ctime_ns INTEGER NOT NULL,
        UNIQUE (collection_id, path)
    ) STRICT;

    -- A document has its file's id. Apart from `files`, so that comparing with the disk reads no texts.
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        first_section INTEGER NOT NULL,
        section_count INTEGER NOT NULL,
        title TEXT NOT NULL,
        japanese INTEGER NOT NULL,
        format TEXT NOT NULL,
        body_start INTEGER NOT NULL,
        front_matter TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    -- Which sections live, without a look at the texts: asked for whenever lists of words are merged.
    CREATE INDEX documents_by_section ON documents (first_section, section_count);

    -- What documents say about themselves, name by name, the values as JSON: text/metadata.py.
    CREATE TABLE metadata (
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        document_id INTEGER NOT NULL,
        PRIMARY KEY (name, value, document_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX metadata_by_document ON metadata (document_id);

    -- The sections of a document have consecutive ids, in their order; an id is never used again.
    CREATE TABLE sections (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        document_id INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        parent INTEGER,
        depth INTEGER NOT NULL,
        last_depth INTEGER NOT NULL,
        heading TEXT NOT NULL,
        heading_path TEXT NOT NULL,
        number TEXT NOT NULL,
        piece INTEGER NOT NULL,
        start_position INTEGER NOT NULL,
        end_position INTEGER NOT NULL,
        start_line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        token_count INTEGER NOT NULL,
        is_passage INTEGER NOT NULL
    ) STRICT;

    -- A section's vector as little-endian 16-bit floats.
    CREATE TABLE vectors (section_id INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT;

    -- The tokens of a passage, packed by closeness.py.
    CREATE TABLE tokens (section_id INTEGER PRIMARY KEY, packed BLOB NOT NULL) STRICT;

    -- A document's passages in one row: their ordinals and their lengths in words (32-bit each) and the packed signs
    -- of their vectors. This is what a search reads whole, so it is as small as it can be; a process that holds it in
    -- memory reads what is newer than the generation that it knows.
    CREATE TABLE passages (
        document_id INTEGER PRIMARY KEY,
        collection_id INTEGER NOT NULL,
        first_section INTEGER NOT NULL,
        dimension INTEGER NOT NULL,
        ordinals BLOB NOT NULL,
        lengths BLOB NOT NULL,
        signs BLOB NOT NULL,
        generation INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX passages_by_generation ON passages (generation);

    -- Which sections went when. What went long ago is forgotten; who knows less than that reads everything again.
    CREATE TABLE gone (generation INTEGER NOT NULL, first INTEGER NOT NULL, past INTEGER NOT NULL) STRICT;
    CREATE INDEX gone_by_generation ON gone (generation);

    -- A number that grows with every change of documents, and up to which one the lists of words are without what was
    -- deleted.
    CREATE TABLE generation (number INTEGER NOT NULL, compacted INTEGER NOT NULL) STRICT;
    INSERT INTO generation VALUES (1, 0);

    -- Word → the passages that hold it, in segments; see postings.py.
    CREATE TABLE segments (id INTEGER PRIMARY KEY AUTOINCREMENT, level INTEGER NOT NULL) STRICT;
    CREATE TABLE postings (
        segment INTEGER NOT NULL,
        word TEXT NOT NULL,
        list BLOB NOT NULL,
        PRIMARY KEY (segment, word)
    ) STRICT, WITHOUT ROWID;

    -- The queue. Of one path at most one request is pending; due_at and the other times are ISO 8601 in UTC.
    CREATE TABLE index_requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection TEXT NOT NULL,
        path TEXT NOT NULL,
        hash TEXT NOT NULL DEFAULT '',
        status TEXT NOT NULL DEFAULT 'pending',
        created_at TEXT NOT NULL,
        started_at TEXT NOT NULL DEFAULT '',
        completed_at TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        attempts INTEGER NOT NULL DEFAULT 0,
        due_at TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE UNIQUE INDEX one_pending ON index_requests (collection, path) WHERE status = 'pending';
    CREATE INDEX waiting_requests ON index_requests (collection, path) WHERE status IN ('pending', 'processing');
    CREATE INDEX pending_in_order ON index_requests (id) WHERE status = 'pending';
    CREATE INDEX requests_by_status ON index_requests (status, completed_at);

    -- For an engine beside this file: sections whose vectors it may hold though no document owns them, and when (in
    -- seconds since 1970) it is certain that nobody wants them any more.
    CREATE TABLE leftovers (first INTEGER NOT NULL, past INTEGER NOT NULL, due_at REAL NOT NULL) STRICT;
    CREATE INDEX leftovers_by_key ON leftovers (first);
    CREATE INDEX leftovers_by_time ON leftovers (due_at);

    -- For an engine beside this file that other projects may use too: a random id, for names that nobody else has, and
    -- the inode of the file that took it, so that a copy of the file takes another.
    CREATE TABLE identity (id TEXT NOT NULL, inode TEXT NOT NULL) STRICT;

    -- Where an engine keeps the vectors of this file: at this address, under names that begin with this prefix. It is
    -- complete once all that the file holds was copied there.
    CREATE TABLE engine_copies (
        address TEXT NOT NULL,
        prefix TEXT NOT NULL,
        complete INTEGER NOT NULL,
        PRIMARY KEY (address, prefix)
    ) STRICT;
"""
