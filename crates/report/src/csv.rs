use quietcore_measure::Run;

pub(crate) fn render(_run: &Run) -> String {
    String::new()
}
