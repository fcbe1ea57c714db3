"""The page of the server: text is pasted into it, and shown with what was found in it in colour."""

from ms_crf.render.html import Page, digest_of, escaped
from ms_crf.server.model import Model

_STYLE = """
form p{margin:.5rem 0;display:flex;flex-wrap:wrap;gap:.4rem .8rem;align-items:center;line-height:1.5}
[hidden],form p[hidden]{display:none}
fieldset{border:0;margin:0;padding:0;min-width:0}
textarea{box-sizing:border-box;width:100%;min-height:9rem;font:inherit;line-height:1.5;resize:vertical}
select,input,button{font:inherit;max-width:100%}
button{padding:.3rem 1.2rem;cursor:pointer}
textarea,select,button,input{color:inherit;background:rgb(var(--page));border:1px solid;border-radius:.3em}
:focus-visible{outline:3px solid rgb(var(--ink));outline-offset:2px}
#status{min-height:1.9em}
"""

_SCRIPT = """
'use strict';
const get = id => document.getElementById(id);
const text = get('text'), nbest = get('nbest'), token = get('token'), result = get('result'), form = get('form');
const say = words => { get('status').textContent = words; };
let last = 0;
get('fields').disabled = false;
form.addEventListener('submit', async event => {
  event.preventDefault();
  const number = ++last;
  const headers = {'Content-Type': 'application/json', 'Accept': 'text/html'};
  if (token.value) headers.Authorization = 'Bearer ' + token.value;
  say('Tagging…');
  let answer, body;
  try {
    answer = await fetch('v1/tag', {method: 'POST', headers,
      body: JSON.stringify({text: text.value, nbest: Number(nbest.value)})});
    body = await answer.text();
  } catch (error) {
    if (number === last) say('The server can not be reached.');
    return;
  }
  if (number !== last) return;
  if (answer.ok && answer.headers.get('MS-CRF-Model') !== document.body.dataset.model) {
    say('Another model is served by now: load this page again.');
  } else if (answer.ok) {
    result.innerHTML = body;
    const count = result.querySelectorAll(':scope > p').length;
    say(count === 1 ? '1 sentence' : count + ' sentences');
  } else {
    let message = '';
    try { message = JSON.parse(body).error; } catch (error) { message = 'The server says ' + answer.status; }
    say(message);
    if (answer.status === 401) { get('locked').hidden = false; token.focus(); }
  }
});
text.addEventListener('keydown', event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
});
"""


def page(model: Model, name: str, most: int) -> tuple[str, str]:
    """The page of a model, and the policy (Content-Security-Policy) that it is sent with.

    Args:
        model: that tags.
        name: as it is shown.
        most: likeliest taggings that may be asked for.
    """
    made: Page = model.page
    style = made.style() + _STYLE
    policy = (f"default-src 'none'; style-src '{digest_of(style)}'; script-src '{digest_of(_SCRIPT)}'; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    shown = escaped(name)
    counts = [0, *(count for count in (2, 3, 5, 10) if model.about.gives_nbest and count <= most)]
    choices = ''.join(f'<option value="{count}">{f"the {count} likeliest" if count else "the best only"}</option>'
                      for count in counts)
    return (f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,">
<title>Tagging</title>
<style>{style}</style>
</head>
<body class="{made.kind}" data-model="{model.mark}">
<header>
<h1>Tagging with <bdi>{shown}</bdi></h1>
{made.legend()}</header>
<main>
<noscript><p>This page needs its script, which your browser does not run. Programs send text to v1/tag.</p></noscript>
<form id="form">
<fieldset id="fields" disabled>
<p><label for="text">Text</label></p>
<textarea id="text" dir="auto" required></textarea>
<p><label for="nbest">Taggings of each sentence</label><select id="nbest">{choices}</select>
<button>Tag</button><span>or Ctrl and Enter</span></p>
<p id="locked" hidden><label for="token">Token</label><input id="token" type="password" autocomplete="off"></p>
</fieldset>
</form>
<p id="status" role="status"></p>
{made.switch()}<div id="result" lang=""></div>
</main>
<script>{_SCRIPT}</script>
</body>
</html>
""", policy)
