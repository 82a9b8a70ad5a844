"""What does an index in PostgreSQL look like? Numbered migrations: version n is reached by running the first n of them.

Texts are compared byte by byte (COLLATE "C"), so that what lies under a folder is a range of an index.
"""

MIGRATIONS = (
    """
    CREATE TABLE annai_collections (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        description text NOT NULL,
        source text NOT NULL,
        enabled boolean NOT NULL,
        imported_at text NOT NULL,
        embedder text NOT NULL,
        settings text NOT NULL
    );

    -- What is known of every file, whether or not it became a document.
    CREATE TABLE annai_files (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        collection_id integer NOT NULL,
        path text COLLATE "C" NOT NULL,
        size bigint NOT NULL,
        mtime_ns bigint NOT NULL,
        hash text NOT NULL,
        problem_kind text,
        problem_reason text,
        UNIQUE (collection_id, path)
    );

    -- A document has its file's id.
    CREATE TABLE annai_documents (
        id bigint PRIMARY KEY,
        collection_id integer NOT NULL,
        first_section bigint NOT NULL,
        section_count integer NOT NULL,
        passages integer NOT NULL,
        words bigint NOT NULL,
        dimension integer NOT NULL,
        title text NOT NULL,
        japanese boolean NOT NULL,
        format text NOT NULL,
        body_start integer NOT NULL,
        front_matter text NOT NULL,
        text text NOT NULL
    );
    CREATE INDEX annai_documents_collection ON annai_documents (collection_id);

    -- The sections of a document have consecutive ids, in their order; an id is never used again.
    CREATE TABLE annai_sections (
        id bigint PRIMARY KEY,
        document_id bigint NOT NULL,
        ordinal integer NOT NULL,
        parent integer,
        depth smallint NOT NULL,
        last_depth smallint NOT NULL,
        heading text NOT NULL,
        heading_path text NOT NULL,
        number text NOT NULL,
        piece integer NOT NULL,
        start_position integer NOT NULL,
        end_position integer NOT NULL,
        start_line integer NOT NULL,
        end_line integer NOT NULL,
        token_count integer NOT NULL,
        is_passage boolean NOT NULL
    );

    CREATE SEQUENCE annai_keys;
    -- Takes consecutive ids without making writers wait for each other's transactions.
    CREATE FUNCTION annai_take_keys(wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE first bigint;
    BEGIN
        PERFORM pg_advisory_lock(hashtext(current_schema() || '.annai_keys'));
        first := nextval('annai_keys');
        PERFORM setval('annai_keys', first + wanted - 1);
        PERFORM pg_advisory_unlock(hashtext(current_schema() || '.annai_keys'));
        RETURN first;
    END $$;

    -- Several dimensions may live here; a large one gets a partial HNSW index of its own.
    CREATE TABLE annai_vectors (
        section_id bigint PRIMARY KEY,
        document_id bigint NOT NULL,
        collection_id integer NOT NULL,
        dimension integer NOT NULL,
        is_passage boolean NOT NULL,
        vector halfvec NOT NULL
    );

    -- A passage's tokens, for those embedders that have them.
    CREATE TABLE annai_tokens (section_id bigint PRIMARY KEY, packed bytea NOT NULL);

    -- How much there is, in several rows a collection, so that writers seldom wait for each other.
    CREATE TABLE annai_counters (
        collection_id integer NOT NULL,
        dimension integer NOT NULL,
        slot integer NOT NULL,
        documents bigint NOT NULL,
        sections bigint NOT NULL,
        passages bigint NOT NULL,
        words bigint NOT NULL,
        PRIMARY KEY (collection_id, dimension, slot)
    );

    -- Word → the passages that hold it, in segments; see postings.py.
    CREATE TABLE annai_segments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, level integer NOT NULL);
    CREATE TABLE annai_postings (
        word text COLLATE "C" NOT NULL,
        segment bigint NOT NULL,
        list bytea STORAGE EXTERNAL NOT NULL,
        PRIMARY KEY (word, segment)
    );
    CREATE INDEX annai_postings_segment ON annai_postings (segment);
    -- Sections that were deleted while lists still name them.
    CREATE TABLE annai_tombstones (first_section bigint PRIMARY KEY, section_count integer NOT NULL);

    -- The queue. Of one path at most one request is pending; who claims one holds it until leased_until.
    CREATE TABLE annai_requests (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        collection text COLLATE "C" NOT NULL,
        path text COLLATE "C" NOT NULL,
        hash text NOT NULL DEFAULT '',
        status text NOT NULL DEFAULT 'pending',
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        started_at timestamptz,
        completed_at timestamptz,
        error text NOT NULL DEFAULT '',
        attempts integer NOT NULL DEFAULT 0,
        due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        worker text NOT NULL DEFAULT '',
        leased_until timestamptz
    );
    CREATE UNIQUE INDEX annai_one_pending ON annai_requests (collection, path) WHERE status = 'pending';
    CREATE INDEX annai_waiting ON annai_requests (collection, path) WHERE status IN ('pending', 'processing');
    CREATE INDEX annai_pending_in_order ON annai_requests (id) WHERE status = 'pending';
    CREATE INDEX annai_processing ON annai_requests (leased_until) WHERE status = 'processing';
    CREATE INDEX annai_requests_by_status ON annai_requests (status, completed_at);
    """,
    """
    -- When a file's content or status last changed: what was written with the old size and time is noticed by it.
    ALTER TABLE annai_files ADD COLUMN ctime_ns bigint NOT NULL DEFAULT 0;
    """,
    """
    -- What an import was told of the sizes of pieces; NULL: the settings say it.
    ALTER TABLE annai_collections ADD COLUMN chunk_size integer;
    ALTER TABLE annai_collections ADD COLUMN chunk_overlap integer;
    """,
    """
    -- What documents say about themselves, name by name, the values as JSON: text/metadata.py. `metadata.py` fills it
    -- from the documents that there are.
    CREATE TABLE annai_metadata (
        name text COLLATE "C" NOT NULL,
        value text COLLATE "C" NOT NULL,
        document_id bigint NOT NULL,
        PRIMARY KEY (name, value, document_id)
    );
    CREATE INDEX annai_metadata_document ON annai_metadata (document_id);
    """,
    """
    -- Which machine indexes a collection, and on which file system its folder was.
    ALTER TABLE annai_collections ADD COLUMN owner text NOT NULL DEFAULT '';
    ALTER TABLE annai_collections ADD COLUMN origin text NOT NULL DEFAULT '';

    -- What it names is found whatever the search_path of its caller: a pooler keeps none.
    CREATE OR REPLACE FUNCTION annai_take_keys(wanted bigint) RETURNS bigint LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
    DECLARE first bigint;
    BEGIN
        PERFORM pg_advisory_lock(hashtext(current_schema() || '.annai_keys'));
        first := nextval('annai_keys');
        PERFORM setval('annai_keys', first + wanted - 1);
        PERFORM pg_advisory_unlock(hashtext(current_schema() || '.annai_keys'));
        RETURN first;
    END $$;

    -- A restricted search compares the passages of a collection, or of some of its documents, and no others.
    CREATE INDEX annai_vectors_of_documents ON annai_vectors (collection_id, document_id) WHERE is_passage;
    """,
    """
    -- What the embedder made of a fixed text: models/probe.py.
    ALTER TABLE annai_collections ADD COLUMN probe text NOT NULL DEFAULT '';
    """,
)

READABLE_FROM = 5
"""The oldest version whose programs can read what this version writes; raise it with a migration that they cannot."""
