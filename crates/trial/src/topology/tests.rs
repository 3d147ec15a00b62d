use super::*;

fn mistakes(text: &str) -> String {
    Topology::parse("t.toml", text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_the_usual_fleet() {
    assert_eq!(Topology::parse("t.toml", ""), Ok(Topology::default()));
}

#[test]
fn everything_that_can_be_said_is_heard() {
    let text = r#"
        regions = 3
        nodes = 4
        consistency = "fast"
        entry = "round-robin"
        store_latency = "0.2ms..3ms"
        global_latency = "40ms"
        publish = "rfc"
        publish_every = "20s"
        import_every = "5s"
        seed = 9
        [[fault]]
        kind = "store-slow"
        region = 2
        by = "80ms"
        from = "5m"
        for = "30s"
        [[fault]]
        kind = "global-away"
        from = "0s"
        for = "1h"
    "#;
    let topology = Topology::parse("t.toml", text).unwrap();
    let slow = TroubleKind::StoreSlow { region: 2, by_us: 80_000 };
    let faults = vec![
        Trouble { kind: slow, from_us: 300_000_000, for_us: 30_000_000 },
        Trouble { kind: TroubleKind::GlobalAway, from_us: 0, for_us: 3_600_000_000 },
    ];
    let expected = Topology {
        regions: 3,
        nodes: 4,
        consistency: Consistency::Fast,
        entry: Entry::RoundRobin,
        store_latency_us: (200, 3_000),
        global_latency_us: (40_000, 40_000),
        publish: Publish::Rfc { every_ms: 20_000 },
        import_every_ms: Some(5_000),
        faults,
        seed: 9,
    };
    assert_eq!(topology, expected);
    let globe = topology.options(0).globe;
    assert_eq!(globe.rule, Rule::Floor { every_ms: 20_000, part: 2 });
    assert_eq!((globe.import_ms, globe.import_min_ms), (5_000, 5_000));
    let facts = topology.facts();
    assert_eq!(facts.summary, "3 regions of 4 processes, fast, 2 faults");
    assert_eq!((facts.regions, facts.nodes), (3, 12));
    let told = "the store of region 2 is slower by up to 80 ms after 5 m for 30 s";
    assert!(facts.facts.iter().any(|fact| fact.value == told), "{facts:?}");
}

#[test]
fn all_mistakes_are_told_at_once_with_their_lines() {
    let said = mistakes(
        "regions = 0\nnods = 2\nconsistency = \"bound\"\nstore_latency = \"3ms..1ms\"\n\
         seed = \"x\"\npublish_every = \"1s\"\n[[fault]]\nkind = \"store_away\"\nregion = 1\n",
    );
    for expected in [
        "t.toml:1:11: `regions` is a whole number from 1 to 100",
        "t.toml:2:1: there is no key `nods`: did you mean `nodes`?\n  2 | nods = 2",
        "t.toml:3:15: there is no consistency `bound`: did you mean `bounded`?",
        "t.toml:4:17: `3ms..1ms`: write the shorter one first",
        "t.toml:5:8: `seed` is a whole number",
        "t.toml:6:17: `publish_every` goes with publish = \"rfc\"",
        "t.toml:7:1: the fault has no `from`",
        "t.toml:7:1: the fault has no `for`",
        "t.toml:8:8: there is no kind `store_away`: did you mean `store-away`?",
    ] {
        assert!(said.contains(expected), "{expected}\n---\n{said}");
    }
    assert!(!said.contains("t.toml:9"), "nobody knows how many regions were meant: {said}");
}

#[test]
fn a_fault_of_what_is_not_there_is_a_mistake() {
    let fault = |keys: &str| format!("[[fault]]\nfrom = \"1s\"\nfor = \"1s\"\n{keys}");
    for (keys, expected) in [
        ("kind = \"kill\"\nregion = 1", "`region` is a whole number from 0 to 0"),
        ("kind = \"kill\"\nregion = 0\nnode = 2", "`node` is a whole number from 0 to 1"),
        ("kind = \"cut-off\"", "the fault has no `region`"),
        ("kind = \"cut-off\"\nregion = 0\nby = \"1s\"", "`by` goes with kind = \"store-slow\""),
        ("kind = \"global-away\"\nregion = 0", "`cut-off` is for one"),
        ("region = 0", "the fault has no `kind`"),
    ] {
        let said = mistakes(&fault(keys));
        assert!(said.contains(expected), "{expected}\n---\n{said}");
    }
    assert!(mistakes("fault = 1").contains("[[fault]]"));
    assert!(mistakes("fault = [1]").contains("[[fault]]"));
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let said = mistakes("regions = 2\nnodes = = 3\nnodse = 2\n");
    assert!(said.contains("t.toml:2:") && said.contains("not TOML"), "{said}");
    assert!(!said.contains("nodse"), "one thing after the other: {said}");
}

#[test]
fn the_topology_of_the_example_is_one() {
    let text = include_str!("../../../../examples/simulate/topology.toml");
    let topology = Topology::parse("topology.toml", text).unwrap();
    assert_eq!(topology.facts().summary, "2 regions of 2 processes, bounded, 1 fault");
}
