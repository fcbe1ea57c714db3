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
    if (number === last) say('Cannot reach the server.');
    return;
  }
  if (number !== last) return;
  if (answer.ok && answer.headers.get('MS-CRF-Model') !== document.body.dataset.model) {
    say('The server has loaded another model. Reload this page.');
  } else if (answer.ok) {
    result.innerHTML = body;
    const count = result.querySelectorAll(':scope > p').length;
    say(count === 1 ? '1 sentence' : count + ' sentences');
  } else {
    let message = '';
    try { message = JSON.parse(body).error; } catch (error) { message = 'The server answered with status ' + answer.status; }
    say(message);
    if (answer.status === 401) { get('locked').hidden = false; token.focus(); }
  }
});
text.addEventListener('keydown', event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
});
