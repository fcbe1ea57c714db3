"""Writes a synthetic corpus of named entities into its own folder: python data/generate.py

A small grammar makes sentences from templates and names from syllables. No name word of a file occurs in another file.
If the template shows the type of a name, the name has any form of its type. If not (slots with *), the form of the name
shows its type. So a tag depends on spelling and context, and often one of them alone is not enough.
"""

import random
import re
from pathlib import Path

SEED = 1
SIZES = {'train': 2400, 'dev': 300, 'test': 400}
LENGTHS = range(4, 15)
REPEATED = 0.25                # share of name words that repeat an earlier word of the same kind in the file
ADJUNCT = 0.2                  # share of sentences with an adjunct, of those whose template begins with +

# Slots in braces are filled at random, from CHOICES or with name words. + allows an adjunct at the beginning or end.
TEMPLATES = """\
+ {PER} said that the {thing} was {adjective} .
+ the {role} {PER} moved to {LOC} .
+ {PER} and {PER} got married in {LOC} .
+ {PER} , {PER} and {PER} shared the {meal} .
{PER} , who lives near {LOC} , is a {role} .
+ we had {meal} with {PER} at the {venue} .
my {relative} {PER} likes {nation} food .
thank you , {PER} , for the {adjective} {thing} .
{PER} works for {ORG} as a {role} .
+ they visited {PER} in hospital .
+ the {nation} {role} {PER} won {number} medals .
{PER} and his {relative} {PER} speak {nation} .
+ the {thing} belonged to {PER} and her {relative} .
+ the train to {LOC} was {number} minutes late .
+ they drove from {LOC} to {LOC} .
+ {number} tourists stayed in {LOC} .
our hotel is near {LOC} .
+ {LOC} , {LOC} and {LOC} had snow .
+ flights between {LOC} and {LOC} were cancelled .
+ {LOC} , where we spent the {season} , was {adjective} .
is there a {venue} in {LOC} ?
{ORG} was founded by {PER} .
+ {ORG} opened an office in {LOC} .
+ {ORG} sued {ORG} .
+ {ORG} , {ORG} and {ORG} raised wages .
+ the {nation} company {ORG} cut {number} jobs .
+ {PER} , head of {ORG} , resigned .
+ {ORG*} said that the {thing} was {adjective} .
+ she installed {PROD} on her {device} .
{PROD} costs {number} dollars .
{PROD} , which weighs {number} grams , fits into a pocket .
+ we compared {PROD} with {PROD} .
+ my {PROD} stopped working .
+ {ORG} launched {PROD} .
does {PROD} run without a {device} ?
{PROD} and {PROD} use the same {device} .
+ {PROD} , {PROD} and {PROD} were out of stock .
+ {PER} repaired her {PROD} with a {device} .
+ the new {ORG*} {PROD} went on sale .
+ {ANY*} was on the front page .
+ we talked about {ANY*} for {number} minutes .
+ the article about {ANY*} was {adjective} .
+ {ANY*} and {ANY*} were in the news .
have you heard of {ANY*} ?
+ the film shows {ANY*} , {ANY*} and a {role} .
+ the {adjective} {thing} was in {sign} {number} .
+ the {nation} team lost by {number} points .
the {venue} opens on {day} and {day} .
{month} was colder than {month} , said the {role} .
+ my {relative} lost her {abbreviation} and the {thing} .
the {nation} {role} speaks {nation} and {nation} .
+ {number} people waited in {sign} {number} .
new {abbreviation} rules were announced in {month} .
north wind and {adjective} rain are likely on {day} .
+ the {role} broke the {device} and the {thing} .
+ {number} {nation} students met in {sign} {number} .
"""
# For each type of name, in place of KIND: only the noun or the verb phrase shows the type.
FRAMES = """\
+ {KIND} {KIND did} .
+ {KIND} , as the {role} said , {KIND did} .
everybody knows that {KIND} {KIND did} .
+ the {KIND noun} of {KIND} seemed {adjective} .
+ {KIND} 's {KIND noun} surprised the {role} .
the {role} described the {KIND noun} of {KIND} .
"""
# Phrases or words; a repeated entry is more likely. <PER ...> is a name.
CHOICES = {name: (listed.split(' | ') if '|' in listed else listed.split()) for name, listed in (
    line.split(': ') for line in """\
PER: <PER {first}> | <PER {first}> | <PER {last}> | {PER*} | {PER*} | {PER*}
PER*: <PER {first} {last}> | <PER {first} {last}> | <PER {letter}. {last}> | {title} <PER {last}>
LOC: <LOC {place}> | <LOC {place}> | <LOC {place}> | {LOC*}
LOC*: <LOC {plain place}> | <LOC {plain place}> | <LOC {before place} {place}> | <LOC {place} {after place}>
ORG: <ORG {firm}> | <ORG {firm}> | <ORG {acronym}> | {ORG*} | {ORG*}
ORG*: <ORG {root} {firm mark}> | <ORG {root} {firm mark}> | <ORG University of {place}> | <ORG {last} & {last}>
root: {firm} | {last} | {place}
PROD: <PROD {item}> | <PROD {item}> | <PROD {app}> | <PROD {app}{digit}> | {PROD*} | {PROD*} | {PROD*}
PROD*: <PROD {item} {version}> | <PROD {item} {version}> | <PROD {item} {item mark} {version}> | <PROD {item}-{digit}>
version: {letter}{digit} | {digit}00 | {digit}.{digit}
ANY*: {PER*} | {LOC*} | {ORG*} | {PROD*}
PER did: laughed | apologised | fell asleep | nodded | took a nap | ran away | got a haircut | sang
LOC did: was flooded | was evacuated | lay under snow | was without water | got a tram | held elections | was besieged
ORG did: went bankrupt | paid a dividend | hired engineers | was taken over | cut jobs | owed taxes | went public
PROD did: crashed | overheated | was recalled | ran out of power | was unveiled | beeped | needed an update | sold well
PER noun: voice childhood wedding biography beard smile husband diary
LOC noun: streets mayor suburbs climate beaches outskirts population traffic
ORG noun: board shareholders chairman staff profits employees shares takeover
PROD noun: battery screen manual firmware buttons keypad software plug
before: on {day} | on {day} , | in {month} | in {month} , | last {season} , | after {meal} , | yesterday
behind: on {day} | in {month} | last {season} | before {meal} | again | this week | in 19{digit}{digit}
number: {digit}{digit} | {digit}{digit}{digit} | {numeral}
numeral: two three four five seven nine twelve fifteen thirty forty
day: Monday Tuesday Wednesday Thursday Friday Saturday Sunday
month: January February March April May June July August September October November December
season: spring summer autumn winter
nation: Danish Korean French Polish Greek German Swedish Turkish Welsh Finnish Spanish Dutch Thai Hungarian
meal: breakfast lunch dinner supper tea
relative: sister brother cousin aunt uncle mother father daughter son neighbour
role: painter nurse lawyer farmer teacher singer pilot baker judge captain doctor professor goalkeeper driver
thing: letter box window bicycle cake map parcel ticket key report garden lamp suitcase painting coat table
adjective: new good long small strange heavy cheap famous wet late quiet poor pretty modern boring red
device: phone laptop charger printer cable camera keyboard tablet speaker router monitor
venue: museum station library hotel harbour stadium market theatre bakery hall
sign: Room Hall Building Block Studio
abbreviation: DVD GPS PDF USB ATM
title: Dr. Mr. Mrs. Ms. Professor Captain Judge
before place: North South Lake Port New Mount
after place: Bay Valley Island
firm mark: Inc Labs Institute Group Bank University
item mark: Pro Mini Max
letter: A B C D E F G H J K L M N P R S T V W X Z
digit: 1 2 3 4 5 6 7 8 9
consonant: B D F G K L M N R T V Z
beginning: bal bre cor dal dru el fen gar hol ir jor kal lam mer nel or per quil ral sel tor ul ven wil yor zan mir vel
middle: an en il or er am ov ad ik un es et ul om ag iv
first ending: a in el is ia on ette o
last ending: son sky ley man ov ez ford ton dale
place ending: ia ford ton dale burg ville mouth stan
plain place ending: ford dale burg ville mouth stan
firm ending: corp gen tech is ia on ex
item ending: ix pad ra o on ex ia
app ending: ix pad ra o ly
""".splitlines())}


class Writer:
    """Makes the sentences of one file. New name words differ from the lower-case words in `taken`."""

    def __init__(self, rng, taken):
        self.rng, self.taken, self.made = rng, taken, {}

    def sentence(self, template):
        """Lines with a token, a tab and its tag."""
        text = template.removeprefix('+ ')
        if text != template and self.rng.random() < ADJUNCT:
            text = self.rng.choice(['{before} ' + text, f'{text[:-1]}{{behind}} {text[-1]}'])
        text = re.sub('<(.+?) (.+?)>', tagged, self.expand(text))
        return [part if '\t' in part else f'{part}\tO' for part in (text[0].upper() + text[1:]).split(' ')]

    def expand(self, text):
        return re.sub('{(.+?)}', lambda slot: self.choose(slot[1]), text)

    def choose(self, name):
        return self.expand(self.rng.choice(CHOICES[name])) if name in CHOICES else self.name_word(name)

    def name_word(self, kind):
        made = self.made.setdefault(kind, [])
        if made and self.rng.random() < REPEATED:
            return self.rng.choice(made)
        acronym = '{consonant}' * self.rng.choice((3, 4))
        word = None
        while word is None or word.lower() in self.taken:
            word = self.expand(acronym if kind == 'acronym' else f'{{beginning}}{{middle}}{{{kind} ending}}')
        self.taken.add(word.lower())
        made.append(word if kind == 'app' else word[0].upper() + word[1:])
        return made[-1]


def tagged(name):
    return ' '.join(f'{token}\t{"I" if place else "B"}-{name[1]}' for place, token in enumerate(name[2].split()))


def main():
    templates = TEMPLATES.splitlines()
    for kind in ('PER', 'LOC', 'ORG', 'PROD'):
        templates += FRAMES.replace('KIND', kind).splitlines()
    taken = set(re.findall('[a-z]+', str((TEMPLATES, FRAMES, CHOICES)).lower()))
    rng, seen = random.Random(SEED), set()
    for part, size in SIZES.items():
        writer, sentences = Writer(rng, taken), []
        while len(sentences) < size:
            lines = writer.sentence(rng.choice(templates))
            if len(lines) in LENGTHS and tuple(lines) not in seen:
                seen.add(tuple(lines))
                sentences.append('\n'.join(lines) + '\n\n')
        Path(__file__).with_name(f'{part}.tsv').write_bytes(''.join(sentences).encode('utf-8'))


if __name__ == '__main__':
    main()
