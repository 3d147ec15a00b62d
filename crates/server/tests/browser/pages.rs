//! Pages with one of everything, and with identifiers that would like to be markup.

use crate::made;
use crate::support::{holds, page};

#[test]
fn plots_are_drawn_without_an_error_and_without_a_request() {
    holds("draws", &page("everything", &made::findings()));
    holds("draws", &page("alone", &made::alone()));
}

#[test]
fn a_page_about_nearly_nothing_is_a_page() {
    for (name, findings) in made::sparse() {
        holds("opens", &page(name, &findings));
    }
}

#[test]
fn nothing_is_wider_than_a_phone() {
    holds("fits", &page("everything", &made::findings()));
}

#[test]
fn light_and_dark_have_colours_of_their_own_and_change_while_one_looks() {
    holds("schemes", &page("everything", &made::findings()));
}

#[test]
fn every_text_can_be_read_on_its_ground() {
    holds("contrast", &page("everything", &made::findings()));
}

#[test]
fn tables_are_sorted_by_what_is_clicked() {
    holds("sorts", &page("everything", &made::findings()));
}

#[test]
fn a_filter_leaves_what_was_asked_for() {
    holds("filters", &page("everything", &made::findings()));
}

#[test]
fn plots_are_read_out_by_keyboard() {
    holds("keys", &page("everything", &made::findings()));
}

#[test]
fn identifiers_that_are_markup_do_nothing() {
    holds("inert", &page("everything", &made::findings()));
}

#[test]
fn what_got_in_all_the_same_could_neither_run_nor_ask() {
    holds("guarded", &page("everything", &made::findings()));
}

#[test]
fn the_answer_is_visible_without_a_script() {
    holds("bare", &page("everything", &made::findings()));
    holds("bare", &page("alone", &made::alone()));
}

#[test]
fn paper_is_light_whatever_the_screen_is() {
    holds("prints", &page("everything", &made::findings()));
}
