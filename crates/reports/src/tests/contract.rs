//! Every message of `proto/` against the struct that stands for it: what the file says, the struct reads and writes
//! without loss, under the same names, and nothing beyond it.

use std::{collections::BTreeMap, fmt::Debug, path::Path};

use prost::Message;

use crate::{messages, pod_resources};

/// Numbers of `FieldDescriptorProto.Type`.
const FIXED64: i32 = 6;
const STRING: i32 = 9;
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;
const REPEATED: i32 = 3;

struct Field {
    name: String,
    number: u8,
    kind: i32,
    is_repeated: bool,
    message: String,
}

/// Messages by their full name, and the paths of all methods.
struct Contract {
    messages: BTreeMap<String, Vec<Field>>,
    methods: Vec<String>,
    phases: Vec<(String, i32)>,
}

fn contract() -> Contract {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files = ["whyslow/v1/reports.proto", "podresources/v1/api.proto"];
    let files = protox::compile(files, [proto]).expect("compiles").file;
    let mut contract = Contract {
        messages: BTreeMap::new(),
        methods: Vec::new(),
        phases: Vec::new(),
    };
    for file in &files {
        let package = file.package();
        for message in &file.message_type {
            let fields = message.field.iter().map(|field| Field {
                name: field.name().to_owned(),
                number: field.number().try_into().expect("below 16"),
                kind: field.r#type() as i32,
                is_repeated: field.label() as i32 == REPEATED,
                message: field.type_name().trim_start_matches('.').to_owned(),
            });
            let mut fields: Vec<Field> = fields.collect();
            fields.sort_by_key(|field| field.number);
            let name = format!("{package}.{}", message.name());
            contract.messages.insert(name, fields);
        }
        for service in &file.service {
            let path = |method: &str| format!("/{package}.{}/{method}", service.name());
            let methods = service.method.iter().map(|method| path(method.name()));
            contract.methods.extend(methods);
        }
        for values in &file.enum_type {
            let phases = values.value.iter();
            let phases = phases.map(|value| (value.name().to_owned(), value.number()));
            contract.phases.extend(phases);
        }
    }
    contract
}

impl Contract {
    /// A message with every field set, repeated ones twice.
    fn sample(&self, message: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &self.messages[message] {
            for _ in 0..=usize::from(field.is_repeated) {
                self.write(field, &mut bytes);
            }
        }
        bytes
    }

    fn write(&self, field: &Field, out: &mut Vec<u8>) {
        let number = field.number;
        let delimited = |content: &[u8], out: &mut Vec<u8>| {
            out.push(number << 3 | 2);
            prost::encode_length_delimiter(content.len(), out).expect("room");
            out.extend(content);
        };
        match field.kind {
            STRING | BYTES => delimited(&[b'a' + number], out),
            MESSAGE => delimited(&self.sample(&field.message), out),
            FIXED64 => {
                out.push(number << 3 | 1);
                out.extend(u64::MAX.to_le_bytes());
            }
            // Varints; `true` and enumerations have no larger value in common.
            _ => out.extend([number << 3, 1]),
        }
    }

    fn compare<M: Message + Default + Debug>(&mut self, name: &str) {
        let sample = self.sample(name);
        let message = M::decode(sample.as_slice()).expect(name);
        assert_eq!(message.encode_to_vec(), sample, "{name}");
        let fields = self.messages.remove(name).expect(name);
        let mut written: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let text = format!("{message:?}");
        let mut read = names(&text);
        written.sort_unstable();
        read.sort_unstable();
        assert_eq!(read, written, "{name}");
    }
}

/// Names of the fields of a struct as its `Debug` shows them.
fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (idx, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            b':' if depth == 1 => names.push(text[begin..idx].trim()),
            _ => {}
        }
        if depth == 1 && matches!(byte, b'{' | b',') {
            begin = idx + 1;
        }
    }
    names
}

#[test]
fn the_messages_are_those_of_the_proto_files() {
    let mut contract = contract();
    // Inner messages first asked for by the outer ones: a compared message is taken out, so they come last.
    contract.compare::<messages::ReportPlacementsRequest>("whyslow.v1.ReportPlacementsRequest");
    contract.compare::<messages::Observation>("whyslow.v1.Observation");
    contract.compare::<messages::Placement>("whyslow.v1.Placement");
    contract.compare::<messages::ReportBatchesRequest>("whyslow.v1.ReportBatchesRequest");
    contract.compare::<messages::Batch>("whyslow.v1.Batch");
    contract.compare::<messages::Participant>("whyslow.v1.Participant");
    contract.compare::<messages::Worker>("whyslow.v1.Worker");
    contract.compare::<pod_resources::ListPodResourcesRequest>("v1.ListPodResourcesRequest");
    contract.compare::<pod_resources::ListPodResourcesResponse>("v1.ListPodResourcesResponse");
    contract.compare::<pod_resources::PodResources>("v1.PodResources");
    contract.compare::<pod_resources::ContainerResources>("v1.ContainerResources");
    contract.compare::<pod_resources::ContainerDevices>("v1.ContainerDevices");
    contract.compare::<pod_resources::DynamicResource>("v1.DynamicResource");
    contract.compare::<pod_resources::ClaimResource>("v1.ClaimResource");
    contract.compare::<pod_resources::CdiDevice>("v1.CDIDevice");
    let rest: Vec<&String> = contract.messages.keys().collect();
    // Answers are empty: nothing stands for them.
    let empty = ["ReportBatchesResponse", "ReportPlacementsResponse"];
    assert_eq!(
        rest,
        empty
            .map(|name| format!("whyslow.v1.{name}"))
            .iter()
            .collect::<Vec<_>>()
    );
    assert!(contract.messages.values().all(Vec::is_empty));
}

#[test]
fn the_methods_and_phases_are_those_of_the_proto_files() {
    let contract = contract();
    let methods = crate::Kind::ALL.map(crate::Kind::method);
    assert_eq!(
        contract.methods,
        [methods[0], methods[1], pod_resources::LIST]
    );
    for (name, number) in contract.phases {
        let phase = messages::Phase::try_from(number).expect("known");
        assert_eq!(
            name,
            format!("PHASE_{}", format!("{phase:?}").to_uppercase())
        );
    }
    assert!(messages::Phase::try_from(4).is_err());
}
