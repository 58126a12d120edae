#!/usr/bin/env python3
"""What scripts of recordings and of judging decide by themselves: which rows are kept and held out, how words are
counted, and that what is learnt is not judged. Needs neither recordings nor judges."""

import contextlib
import io
import os
import sys
import unittest
import unittest.mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.dont_write_bytecode = True

import demo_grammar  # noqa: E402
import make_human_data  # noqa: E402
import word_errors  # noqa: E402


class Words(unittest.TestCase):
    def test_words(self):
        self.assertEqual(word_errors.words_of("Press 7, or 42; it's \u2018re-recorded\u2019."),
                         "press seven or forty two it's rerecorded".split())
        self.assertEqual(word_errors.words_of("You're, I'm, doesn't"), "you are i am does not".split())
        self.assertEqual(word_errors.words_of("315 2026"), "three hundred fifteen two zero two six".split())
        self.assertEqual(word_errors.words_of(" ... "), [])

    def test_errors(self):
        def count(said, heard):
            return word_errors.count_errors(said.split(), heard.split())

        self.assertEqual(count("a b c", "a b c"), 0)
        self.assertEqual(count("a b c", "a x c"), 1)
        self.assertEqual(count("a b c", "a c"), 1)
        self.assertEqual(count("a b c", "a b b c"), 1)
        self.assertEqual(count("a b c", ""), 3)
        self.assertEqual(count("", "a b"), 2)
        self.assertEqual(count("the mail box is", "the mailbox is"), 0)
        self.assertEqual(count("a mailbox", "a mail box"), 0)
        self.assertEqual(count("a mailbox", "a mail"), 1)

    def test_interval(self):
        # 60 sentences of 10 words with 0 or 2 errors: the rate is 0.1, its standard error sqrt(0.01 / 60) = 0.0129.
        errors, words = [0, 2] * 30, [10] * 60
        rates = word_errors.draw_error_rates(errors, words)
        low, high = word_errors.find_interval(rates)
        self.assertAlmostEqual(low, 0.1 - 1.96 * 0.0129, delta=0.004)
        self.assertAlmostEqual(high, 0.1 + 1.96 * 0.0129, delta=0.004)
        worse = word_errors.draw_error_rates([e + 1 for e in errors], words)
        for a, b in zip(worse, rates):  # the same sentences were drawn
            self.assertAlmostEqual(a - b, 0.1)


class Grammar(unittest.TestCase):
    def test_what_is_learnt_is_not_judged(self):
        known = demo_grammar.known_sentences()
        slots = demo_grammar.read_patterns(known)
        judged = demo_grammar.make_new(slots, set(known), len(known))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), unittest.mock.patch.object(sys, "argv", ["demo_grammar", "4000"]):
            demo_grammar.main()
        made = out.getvalue().splitlines()
        self.assertEqual(len(set(made)), 4000)
        self.assertFalse(set(made) & ({*known, *judged}))
        self.assertEqual(demo_grammar.read_patterns(made), slots)  # the same words, in the same places


class Rows(unittest.TestCase):
    def test_faults(self):
        find = make_human_data.find_fault
        for text, reason in (("", "no text"), ("[a tone]", "note"), ("Added.", "two words"), ("USB Radio", "acronym")):
            self.assertIn(reason, find(make_human_data.clean(text), False))
        for text in ("You are now muted", "Use the 7 key for Q, and the 9 key for Z."):
            self.assertIsNone(find(make_human_data.clean(text), False))
        self.assertIsNone(find("Added.", True))
        for text in ("b", "SIP"):
            self.assertIn("letters", find(text, True))

    def test_lengths(self):
        text = "The conference is now locked."
        self.assertIsNone(make_human_data.find_bad_length(text, 2.0))
        self.assertIn("does not fit", make_human_data.find_bad_length(text, 0.5))
        self.assertIn("does not fit", make_human_data.find_bad_length(text, 10.0))
        self.assertIsNone(make_human_data.find_bad_length("one", 0.7))
        self.assertIn("longer", make_human_data.find_bad_length(text * 20, 40.0))

    def test_clean(self):
        self.assertEqual(make_human_data.clean("... separated by *  and then..."), "separated by star and then")

    def test_held_out(self):
        samples = [0] * (3 * make_human_data.RATE)
        kept = [(f"r{i}", f"this is sentence number {i}x", samples) for i in range(9)]
        kept.append(("part", "please try again now", samples))
        kept.append(("whole", "I am sorry, please try again now", samples))
        kept.append(("short", "two words", samples))
        first = make_human_data.choose_held_out(kept, 5, 1)
        self.assertEqual(first, make_human_data.choose_held_out(kept, 5, 1))
        self.assertNotEqual(first, make_human_data.choose_held_out(kept, 5, 2))
        everything = make_human_data.choose_held_out(kept, 10, 3)  # all but what is part of another, or too short
        self.assertEqual(everything, {f"r{i}" for i in range(9)} | {"whole"})
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            make_human_data.choose_held_out(kept, 11, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
