GRANT SELECT ON tidegate.tidegate_schema TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_regions TO 'tidegate'@'%';
GRANT SELECT, INSERT, DELETE ON tidegate.tidegate_feed TO 'tidegate'@'%';
GRANT SELECT, UPDATE ON tidegate.tidegate_revision TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_workspaces TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_keys TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_namespaces TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_overrides TO 'tidegate'@'%';
GRANT SELECT, INSERT ON tidegate.tidegate_audit TO 'tidegate'@'%';
