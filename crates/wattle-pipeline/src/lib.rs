//! Pipelines described in YAML.
