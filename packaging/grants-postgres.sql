-- The rights of a server on PostgreSQL that makes no tables (`duetime serve --no-migrate`), for tables in the schema `public`.
-- Choose a password. As an administrator, once the tables are there: psql duetime < grants-postgres.sql
-- Where these were taken from everybody, it also needs USAGE on the schema and CONNECT to the database.
CREATE ROLE duetime_server LOGIN PASSWORD 'secret';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime_jobs, duetime_tallies TO duetime_server;
GRANT SELECT, INSERT, DELETE ON duetime_tags TO duetime_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime_registry TO duetime_server;
GRANT SELECT, UPDATE ON duetime_meta TO duetime_server;
GRANT SELECT, UPDATE, DELETE ON duetime_inbox TO duetime_server;
