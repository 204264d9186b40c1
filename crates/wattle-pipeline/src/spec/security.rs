//! The `security` block of a Kafka input or output, as client properties.

use crate::yaml::{Field, Map};

/// Properties with their values and the keys that set them.
pub(super) type Properties<'a> = Vec<(&'static str, String, Field<'a>)>;

/// `protocol`, `sasl {mechanism, username, password}` and `tls {ca, cert, key, key_password, insecure_skip_verify}`. Without a protocol it
/// follows from what is there.
pub(super) fn read<'a>(field: &Field<'a>) -> Properties<'a> {
    let mut properties = Properties::new();
    let Some(mut map) = Map::of(field) else { return properties };
    let words = ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"].map(|word| (word, word));
    let protocol = map.get("protocol");
    let sasl = map.get("sasl");
    let tls = map.get("tls");
    map.finish();
    let inferred = match (&sasl, &tls) {
        (Some(_), Some(_)) => "sasl_ssl",
        (Some(_), None) => "sasl_plaintext",
        (None, Some(_)) => "ssl",
        (None, None) => "plaintext",
    };
    match protocol {
        Some(protocol) => {
            if let Some(word) = protocol.word(&words) {
                if word != inferred {
                    let text = format!(
                        "with these keys the protocol is {inferred}; write that, or remove protocol, or sasl or tls"
                    );
                    protocol.problem(text);
                }
                properties.push(("security.protocol", word.to_owned(), protocol));
            }
        }
        None => properties.push(("security.protocol", inferred.to_owned(), field.again())),
    }
    if let Some(sasl) = sasl {
        read_sasl(&sasl, &mut properties);
    }
    if let Some(tls) = tls {
        read_tls(&tls, &mut properties);
    }
    properties
}

fn read_sasl<'a>(field: &Field<'a>, properties: &mut Properties<'a>) {
    let mechanisms = [("plain", "PLAIN"), ("scram-sha-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")];
    let Some(mut map) = Map::of(field) else { return };
    if let Some(field) = map.required("mechanism", "needs a mechanism: plain, scram-sha-256 or scram-sha-512")
        && let Some(mechanism) = field.word(&mechanisms)
    {
        properties.push(("sasl.mechanism", mechanism.to_owned(), field));
    }
    for (key, property) in [("username", "sasl.username"), ("password", "sasl.password")] {
        if let Some(field) = map.required(key, "is needed with a mechanism; take it from the environment: ${VAR}")
            && let Some(value) = field.string()
        {
            properties.push((property, value, field));
        }
    }
    map.finish();
}

fn read_tls<'a>(field: &Field<'a>, properties: &mut Properties<'a>) {
    let Some(mut map) = Map::of(field) else { return };
    for (key, place, text) in [
        ("ca", "ssl.ca.location", "ssl.ca.pem"),
        ("cert", "ssl.certificate.location", "ssl.certificate.pem"),
        ("key", "ssl.key.location", "ssl.key.pem"),
        ("key_password", "ssl.key.password", "ssl.key.password"),
    ] {
        if let Some(field) = map.get(key)
            && let Some(value) = field.text()
        {
            let is_text = value.trim_start().starts_with("-----BEGIN");
            properties.push((if is_text { text } else { place }, value, field));
        }
    }
    if let Some(field) = map.get("insecure_skip_verify")
        && field.bool() == Some(true)
    {
        properties.push(("enable.ssl.certificate.verification", "false".to_owned(), field));
    }
    map.finish();
}
