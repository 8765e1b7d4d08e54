use quietcore_measure::Run;

pub(crate) fn render(_run: &Run, _options: &crate::Options) -> String {
    String::new()
}
