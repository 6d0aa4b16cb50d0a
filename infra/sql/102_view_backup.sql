-- A rollback makes each view and function of serving read the tables again by its own text: no copy of the former one is kept.

DROP TABLE odograph.view_backup;
