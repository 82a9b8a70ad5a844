-- Who may do what in annai's database. A superuser runs it once, in that database:
--     ANNAI_PASSWORD=… ANNAI_READER_PASSWORD=… psql --dbname=annai --file=roles.sql
\set ON_ERROR_STOP on
\getenv password ANNAI_PASSWORD
\getenv reader_password ANNAI_READER_PASSWORD

CREATE EXTENSION IF NOT EXISTS vector;

-- The indexer: owns the schema, so it makes and upgrades the tables.
CREATE ROLE annai LOGIN PASSWORD :'password';
CREATE SCHEMA IF NOT EXISTS annai AUTHORIZATION annai;

-- The servers: they read what is there, and what the indexer will make.
CREATE ROLE annai_reader LOGIN PASSWORD :'reader_password';
ALTER ROLE annai_reader SET default_transaction_read_only = on;
GRANT USAGE ON SCHEMA annai TO annai_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA annai TO annai_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE annai IN SCHEMA annai GRANT SELECT ON TABLES TO annai_reader;
