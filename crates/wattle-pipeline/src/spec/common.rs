//! Keys of every component: `name` and `codec`.

use crate::yaml::{Field, Map};

/// What a component says beside its own keys.
#[derive(Default)]
pub(crate) struct Common {
    /// Shown in the plan.
    pub(crate) name: Option<String>,
    /// Values must be JSON, also where no processor looks at them.
    pub(crate) is_json: bool,
}

/// Reads them.
pub(super) fn read(map: &mut Map) -> Common {
    let name = map.get("name").and_then(|field| field.name());
    Common { name, is_json: map.get("codec").is_some_and(|field| codec(&field).is_some()) }
}

fn codec(field: &Field) -> Option<()> {
    if !field.is_structure() {
        field.problem("must be a map: codec: {type: json}");
        return None;
    }
    let mut map = Map::of(field)?;
    map.required("type", "a codec needs type: json")?.word(&[("json", ())])?;
    map.finish();
    Some(())
}
