"""The page of the server: text is pasted into it, and shown with the tags in colour."""

from string import Template

from ms_crf.render.html import Page, asset, digest_of, escaped
from ms_crf.server.model import Model


def page(model: Model, name: str, most: int) -> tuple[str, str]:
    """Returns the page of a model, and the policy (Content-Security-Policy) that it is sent with.

    Args:
        model: that tags.
        name: as it is shown.
        most: likeliest taggings that may be asked for.
    """
    tagged: Page = model.page
    style, script = tagged.style() + asset(__file__, 'page.css'), asset(__file__, 'page.js')
    policy = (f"default-src 'none'; style-src '{digest_of(style)}'; script-src '{digest_of(script)}'; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    counts = [0, *(count for count in (2, 3, 5, 10) if model.about.gives_nbest and count <= most)]
    choices = ''.join(f'<option value="{count}">{f"the {count} likeliest" if count else "the best only"}</option>'
                      for count in counts)
    return Template(asset(__file__, 'page.html')).substitute(
        style=style, kind=tagged.kind, mark=model.mark, name=escaped(name), legend=tagged.legend(), choices=choices,
        switch=tagged.switch(), script=script), policy
