//! Logs as they are found: mixed, broken, late.

use super::*;

/// When it begins.
const BASE_S: u64 = 1_700_000_000;

fn logs(text: &str, wanted: &str, reorder_ms: u64) -> Result<Logs, TraceError> {
    let options = ReadOptions { reorder_ms, ..ReadOptions::default() };
    read(&[text], wanted, &options)
}

fn read(texts: &[&str], wanted: &str, options: &ReadOptions) -> Result<Logs, TraceError> {
    let mut fields = Fields::default();
    fields.want(wanted);
    let inputs = texts.iter().enumerate().map(|(at, text)| Input {
        name: format!("log {at}"),
        read: Box::new(std::io::Cursor::new(text.as_bytes().to_vec())),
    });
    Logs::new(inputs.collect(), options, fields)
}

fn all(mut logs: Logs) -> (Vec<(u64, String)>, TraceFacts) {
    let (mut record, mut found) = (Record::default(), Vec::new());
    while logs.next(&mut record).unwrap() {
        found.push((record.at_unix_ms(), record.get(0).unwrap_or("none").to_owned()));
    }
    (found, logs.facts())
}

fn json(at: u64, ip: &str) -> String {
    format!("{{\"time\":{at},\"ip\":\"{ip}\"}}\n")
}

#[test]
fn a_format_is_found_out() {
    let clf = "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 1";
    let combined = format!("{clf} \"-\" \"curl\"");
    let csv = "time,ip\n1709164800,a\n";
    let tabs = "ts\tip\n1709164800\ta\n";
    for (text, format) in [
        (clf, "common"),
        (&combined, "combined"),
        (&json(BASE_S, "a"), "json"),
        (csv, "csv"),
        (tabs, "csv"),
    ] {
        let (found, facts) = all(logs(text, "ip", 0).unwrap());
        assert_eq!((found.len(), facts.format.as_str()), (1, format), "{text}");
    }
}

#[test]
fn what_is_no_log_is_refused_with_a_line_of_it() {
    for (text, wanted, expected) in [
        ("", "ip", "is empty"),
        ("\n\n", "ip", "is empty"),
        ("hello\nworld\n", "ip", "it begins with\n  hello"),
        ("a,b\n1,2\n", "ip", "--time-field"),
        ("time,ip\n1709164800,a\n", "user", "no column `user`"),
        ("1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 1", "tenant", "only ip"),
    ] {
        let why = logs(text, wanted, 0).unwrap_err().0;
        assert!(why.contains(expected), "{text}: {why}");
    }
    let options = ReadOptions { format: Some(Format::Json), ..ReadOptions::default() };
    let mut logs = read(&[&"hello\n".repeat(2_000)], "ip", &options).unwrap();
    let why = logs.next(&mut Record::default()).unwrap_err().0;
    assert!(why.contains("first 1000 lines") && why.contains("\n  hello\n"), "{why}");
}

#[test]
fn malformed_lines_are_counted_and_the_first_ones_shown_with_their_numbers() {
    let mut text = json(BASE_S, "a") + "\n";
    for _ in 0..15 {
        text += "{\"time\":1\n";
    }
    text += &json(BASE_S + 1, "b");
    let (found, facts) = all(logs(&text, "ip", 0).unwrap());
    assert_eq!(found.len(), 2);
    assert_eq!((facts.lines, facts.requests, facts.malformed), (18, 2, 15));
    let numbers: Vec<u64> = facts.malformed_first.iter().map(|it| it.line).collect();
    assert_eq!(numbers, (3..13).collect::<Vec<_>>());
    assert_eq!(facts.malformed_first[0].sample, "{\"time\":1");
}

#[test]
fn late_lines_are_put_in_order_and_too_late_ones_counted() {
    let times = [10, 12, 11, 15, 13, 20, 14, 21];
    let text: String = times.iter().map(|at| json(BASE_S + at, &at.to_string())).collect();
    let (found, facts) = all(logs(&text, "ip", 2_000).unwrap());
    let order: Vec<&str> = found.iter().map(|(_, ip)| ip.as_str()).collect();
    assert_eq!(order, ["10", "11", "12", "13", "15", "14", "20", "21"]);
    assert!(found.is_sorted_by_key(|(at, _)| *at), "{found:?}");
    assert_eq!(facts.out_of_order, 1, "14 came after 20");
    assert_eq!(
        (facts.first_unix_ms, facts.last_unix_ms),
        (BASE_S * 1_000 + 10_000, BASE_S * 1_000 + 21_000)
    );
    let (found, facts) = all(logs(&text, "ip", 0).unwrap());
    assert_eq!((found[2].0, facts.out_of_order), (BASE_S * 1_000 + 12_000, 3));
}

#[test]
fn calls_of_one_moment_stay_in_order() {
    let text: String = (0..100).map(|at| json(BASE_S, &at.to_string())).collect();
    let (found, _) = all(logs(&text, "ip", 2_000).unwrap());
    assert!(found.iter().enumerate().all(|(at, (_, ip))| at.to_string() == *ip));
}

#[test]
fn files_of_csv_bring_their_names_again_and_quotes_may_hold_line_ends() {
    let first = "time,ip,agent\n1709164800,a,\"x\ny\"\n";
    let second = "time,ip,agent\n1709164801,b,z\nnoon,c,d\n";
    let (found, facts) = all(read(&[first, second], "agent", &ReadOptions::default()).unwrap());
    let agents: Vec<&str> = found.iter().map(|(_, agent)| agent.as_str()).collect();
    assert_eq!(agents, ["x\ny", "z"]);
    assert_eq!(facts.source, "log 0 and 1 more");
    assert_eq!((facts.malformed, facts.malformed_first[0].line), (1, 3));
    assert!(facts.malformed_first[0].reason.ends_with("(in log 1)"), "{facts:?}");
}

#[test]
fn a_path_has_no_query_whatever_the_format() {
    let line = "{\"time\":1700000000,\"uri\":\"https://example.org/a?b=c\"}\n";
    assert_eq!(all(logs(line, "path", 0).unwrap()).0[0].1, "/a");
    let line = "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /a?b HTTP/1.1\" 200 1";
    assert_eq!(all(logs(line, "path", 0).unwrap()).0[0].1, "/a");
}

/// Days after the first, as they are told, and what was malformed.
fn days(all_days: &[u64]) -> (Vec<String>, Vec<u64>) {
    let line = |day: &u64| json(BASE_S + day * 86_400, &day.to_string());
    let text: String = all_days.iter().map(line).collect();
    let (found, facts) = all(logs(&text, "ip", 2_000).unwrap());
    assert_eq!((facts.requests, facts.lines), (found.len() as u64, all_days.len() as u64));
    let malformed = facts.malformed_first.iter().map(|it| it.line).collect();
    (found.into_iter().map(|(_, day)| day).collect(), malformed)
}

#[test]
fn a_time_that_jumps_is_malformed_and_what_follows_is_in_order() {
    let order = |days: &[u64]| days.iter().map(u64::to_string).collect::<Vec<_>>();
    assert_eq!(days(&[0, 0, 9_000, 0, 1]), (order(&[0, 0, 0, 1]), vec![3]));
    assert_eq!(days(&[9_000, 0, 0, 1]), (order(&[0, 0, 1]), vec![1]), "the very first");
    assert_eq!(days(&[0, 1, 9_000]), (order(&[0, 1]), vec![3]), "the very last");
    assert_eq!(days(&[0, 9_000, 8_000, 0, 1]), (order(&[0, 0, 1]), vec![2, 3]));
}

#[test]
fn a_pause_is_no_jump() {
    let order = |days: &[u64]| days.iter().map(u64::to_string).collect::<Vec<_>>();
    for pauses in [&[0, 1, 7, 7, 8][..], &[7], &[0, 30, 30, 60, 60], &[0, 2, 4, 6, 6]] {
        assert_eq!(days(pauses), (order(pauses), vec![]), "{pauses:?}");
    }
}

#[test]
fn each_input_has_its_own_format_and_columns() {
    let first = "time,ip,agent\n1709164800,a,x\n";
    let turned = "agent,ip,time\ny,b,1709164801\n";
    let clf = "1.2.3.4 - - [29/Feb/2024:00:00:02 +0000] \"GET /a HTTP/1.1\" 200 1\n";
    let texts = [first, turned, "\n", clf, &json(1_709_164_803, "d")];
    let (found, facts) = all(read(&texts, "ip", &ReadOptions::default()).unwrap());
    let ips: Vec<&str> = found.iter().map(|(_, ip)| ip.as_str()).collect();
    assert_eq!(ips, ["a", "b", "1.2.3.4", "d"]);
    assert_eq!((facts.format.as_str(), facts.malformed), ("csv and common and json", 0));
    let why = read(&[first, "time,user\n1709164801,b\n"], "ip", &ReadOptions::default());
    let why = why.unwrap_err().0;
    assert!(why.starts_with("log 1: there is no column `ip`"), "{why}");
}

#[test]
fn what_has_no_format_is_read_as_the_input_before() {
    let texts = ["time,ip\n1709164800,a\n", "1709164801,b\n1709164802,c\n", "noise\n"];
    let (found, facts) = all(read(&texts, "ip", &ReadOptions::default()).unwrap());
    assert_eq!((found.len(), facts.malformed), (3, 1));
    assert!(facts.malformed_first[0].reason.ends_with("(in log 2)"), "{facts:?}");
}

#[test]
fn inputs_are_read_in_the_order_of_their_first_requests() {
    let day = |day: u64| {
        let line = |at: u64| json(BASE_S + day * 86_400 + at, &format!("{day}-{at}"));
        (0..1_000).map(line).collect::<String>()
    };
    let (newest, middle, oldest) = (day(2), day(1), day(0));
    let (found, facts) =
        all(read(&[&newest, &middle, &oldest], "ip", &ReadOptions::default()).unwrap());
    assert_eq!((found.len(), facts.out_of_order, facts.malformed), (3_000, 0, 0));
    assert_eq!((found[0].1.as_str(), found[2_999].1.as_str()), ("0-0", "2-999"));
}

#[test]
fn a_stray_quote_costs_one_line_at_most() {
    let good = |from: u64| {
        (from..from + 100).map(|at| format!("{},ok,z\n", BASE_S + at)).collect::<String>()
    };
    for (stray, malformed) in [("5\" pipe,z", 0), ("\"5 pipe,z", 1), ("\"5 \"\" pipe\"x,z", 0)] {
        let text = format!("time,agent,x\n{BASE_S},{stray}\n{}", good(1));
        let second = format!("time,agent,x\n{}", good(200));
        let read = read(&[&text, &second], "agent", &ReadOptions::default()).unwrap();
        let (found, facts) = all(read);
        assert_eq!(facts.malformed, malformed, "{stray}: {facts:?}");
        assert_eq!((found.len() as u64, facts.lines), (201 - malformed, 203), "{stray}");
    }
}

#[test]
fn a_quote_that_stays_open_ends_with_its_input() {
    let first = format!("time,agent\n{BASE_S},\"open\nmore\n");
    let second = format!("time,agent\n{},\"b\nc\"\n", BASE_S + 1);
    let (found, facts) = all(read(&[&first, &second], "agent", &ReadOptions::default()).unwrap());
    assert_eq!((found.len(), found[0].1.as_str()), (1, "b\nc"));
    assert_eq!((facts.malformed, facts.lines), (2, 6));
    assert!(facts.malformed_first[0].reason.contains("quote"), "{facts:?}");
}

#[test]
fn a_column_of_durations_is_no_time() {
    let text = "time,timestamp,ip\n0.012,2024-02-29T00:00:00Z,a\n";
    assert_eq!(all(logs(text, "ip", 0).unwrap()).0[0].0, 1_709_164_800_000);
    let options = ReadOptions { time_field: Some("time".to_owned()), ..ReadOptions::default() };
    assert_eq!(all(read(&[text], "ip", &options).unwrap()).0[0].0, 12);
}

#[test]
fn the_format_of_very_long_lines_is_found_out() {
    let path = "x".repeat(900_000);
    let text = format!("{{\"time\":{BASE_S},\"path\":\"{path}\"}}\n").repeat(3);
    assert_eq!(all(logs(&text, "path", 0).unwrap()).0.len(), 3);
}

#[test]
fn much_disorder_is_said_loudly_and_a_little_is_not() {
    let facts =
        |out_of_order| TraceFacts { requests: 1_000, out_of_order, ..TraceFacts::default() };
    assert_eq!((disorder(&facts(0)), disorder(&facts(10))), (None, None));
    let said = disorder(&facts(11)).unwrap();
    assert!(said.starts_with("11 of 1000 requests are out of order"), "{said}");
}

#[test]
fn logs_of_several_servers_are_one_trace() {
    let server = |number: u64| {
        let line = |at: u64| json(BASE_S + at * 10 + number, &format!("{at}-{number}"));
        (0..1_000).map(line).collect::<String>()
    };
    let (first, second, third) = (server(0), server(5), server(3));
    let texts = [&*first, "noise\n", &second, &third];
    for reorder_ms in [0, 2_000] {
        let options = ReadOptions { reorder_ms, ..ReadOptions::default() };
        let (found, facts) = all(read(&texts, "ip", &options).unwrap());
        assert_eq!((facts.requests, facts.out_of_order, facts.malformed), (3_000, 0, 1));
        let begin: Vec<&str> = found.iter().take(4).map(|(_, ip)| ip.as_str()).collect();
        assert_eq!(begin, ["0-0", "0-3", "0-5", "1-0"]);
        assert_eq!(facts.last_unix_ms, (BASE_S + 9_995) * 1_000);
    }
}

#[test]
fn a_log_of_numbers_with_too_many_digits_says_so() {
    let text = format!("{{\"time\":{BASE_S},\"user\":12345678901234567890123}}\n");
    let why = logs(&text, "user", 0).unwrap().next(&mut Record::default()).unwrap_err().0;
    assert!(why.contains("too many digits: expected it in quotes"), "{why}");
}
