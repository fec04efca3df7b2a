-- The privileges that `duetime serve --no-migrate` needs on PostgreSQL, for tables in the schema `public`.
-- Choose a password. Once the tables exist, run as an administrator: psql duetime < grants-postgres.sql
-- If these were revoked from PUBLIC, the role also needs USAGE on the schema and CONNECT on the database.
CREATE ROLE duetime_server LOGIN PASSWORD 'secret';
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime_jobs, duetime_tallies TO duetime_server;
GRANT SELECT, INSERT, DELETE ON duetime_tags TO duetime_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON duetime_registry TO duetime_server;
GRANT SELECT, UPDATE ON duetime_meta TO duetime_server;
GRANT SELECT, UPDATE, DELETE ON duetime_inbox TO duetime_server;
