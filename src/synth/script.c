/* See script.h. Paragraphs, which empty lines part, are normalised one by one, since normalising joins lines.
 */
#include "synth/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/utf8.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "text/adapt.h"
#include "text/normalize.h"
#include "text/ssml.h"
#include "text/unicode.h"

#define NO_PAUSE (-1.0)

typedef struct writer {
    const td_checkpoint_info *voice;
    const td_script_options *options;
    td_normalizer *normalizer;
    size_t max_characters;
    double rate;     /* of the part at hand */
    size_t n_unread; /* words whose phonemes the voice cannot read */
    bool has_rate;   /* one was asked for that the voice cannot keep */
    td_left_outs left_outs;
    td_script *out;
} writer;

/* A voice of many languages has a token for each that it learnt. */
static td_status check_language(const td_script *s)
{
    char known[TD_LANG_COUNT * 4 + 1] = "";
    size_t used = 0;
    if (td_tokenizer_has_language(s->tokenizer, s->lang)) return TD_OK;
    for (int i = 0; i < TD_LANG_COUNT; i++)
        if (td_tokenizer_has_language(s->tokenizer, (td_lang)i))
            used += (size_t)snprintf(known + used, sizeof known - used, " %s", td_lang_code((td_lang)i));
    return TD_FAIL(TD_ERR_CONFIG, "language '%s': the voice has not learnt it; it speaks%s",
                   td_lang_code(s->lang), known);
}

static td_status open_writer(writer *w)
{
    const td_checkpoint_info *v = w->voice;
    td_script *s = w->out;
    s->model = td_model_describe(&v->model);
    TD_CHECK(td_normalizer_create(s->lang, &w->normalizer));
    if (v->token_kind == TD_TOKENS_BPE) {
        TD_CHECK(v->tokenizer_json ? td_tokenizer_parse_bpe(v->tokenizer_json, strlen(v->tokenizer_json),
                                                            NULL, &s->tokenizer)
                                   : td_tokenizer_open_bpe(v->tokenizer, &s->tokenizer));
    } else {
        TD_CHECK(td_symbols_parse(v->symbols, &s->symbols));
        if (v->unseen) TD_CHECK(td_symbols_hide(s->symbols, v->unseen));
        if (td_tokenizer_create(v->token_kind, s->symbols, &s->tokenizer) != TD_OK)
            return td_error_context("the voice was trained with phonemes");
    }
    /* Start and end, or the tag of a language, are tokens too; phonemes are more than the characters they stand for. */
    const uint32_t most = s->model.max_tokens;
    w->max_characters = most > 4 ? most - 2 : 1;
    if (v->token_kind == TD_TOKENS_PHONEMES) w->max_characters = (w->max_characters + 1) / 2;
    const size_t usual =
        s->model.piece_characters ? s->model.piece_characters[s->lang] : TD_SCRIPT_PIECE_CHARACTERS;
    if (w->max_characters > usual) w->max_characters = usual;
    if (!s->model.is_romanized) return TD_OK;
    TD_CHECK(check_language(s));
    return td_romanizer_create(s->lang, &s->romanizer);
}

static void close_writer(writer *w)
{
    td_normalizer_destroy(w->normalizer);
    td_left_outs_free(&w->left_outs);
}

static td_status check_tokens(const td_tokens *tokens, const td_model_facts *model)
{
    unsigned char shown[U8_MAX_LENGTH + 1] = "";
    const uint32_t c = tokens->first_unknown;
    if (tokens->n_unknown > 0 && c > ' ' && c != 0x7f) {
        size_t length = 0;
        U8_APPEND_UNSAFE(shown, length, c);
    }
    TD_REFUSE_IF(
        tokens->n_unknown > 0, TD_ERR_FORMAT,
        "the text has '%s' (U+%04X), which the voice has not learnt; write it in other letters, or train "
        "with texts that have it",
        (const char *)shown, (unsigned)c);
    for (size_t i = 0; i < tokens->count; i++)
        TD_REFUSE_IF(tokens->ids[i] < 0 || (uint32_t)tokens->ids[i] >= model->n_symbols, TD_ERR_FORMAT,
                     "token %d of the text is beyond the voice's %u; the tokenizer is of another voice",
                     (int)tokens->ids[i], model->n_symbols);
    return TD_OK;
}

/* Marks alone cannot be spoken. */
static bool has_letter(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (td_unicode_is_letter(codepoint)) return true;
    }
    return false;
}

/* Bytes up to the next letter that stands for phonemes of the lexicon, which are in *phonemes; NULL: all of them. */
static size_t find_phonemes(const td_script *s, const char *text, size_t bytes, const char **phonemes,
                            size_t *length)
{
    *phonemes = NULL;
    for (size_t at = 0; s->lexicon && at < bytes; at += *length) {
        uint32_t codepoint;
        *length = td_text_utf8_next(text + at, bytes - at, &codepoint);
        *phonemes = td_lexicon_phonemes(s->lexicon, codepoint);
        if (*phonemes) return at;
    }
    return bytes;
}

/* As the tokenizer spells it; where the lexicon has phonemes, with those. */
static td_status spell(const td_script *s, const char *text, size_t bytes, td_buffer *out)
{
    const td_token_kind kind = td_tokenizer_kind(s->tokenizer);
    const char *phonemes;
    size_t length = 0;
    if (s->romanizer) return td_romanizer_run(s->romanizer, text, bytes, out);
    if (kind != TD_TOKENS_PHONEMES) return td_tokenizer_spell(kind, s->lang, text, bytes, out);
    while (bytes > 0) {
        const size_t run = find_phonemes(s, text, bytes, &phonemes, &length);
        const size_t used = run + (phonemes ? length : 0);
        if (run > 0) TD_CHECK(td_tokenizer_spell(kind, s->lang, text, run, out));
        if (phonemes && out->size > 0 && out->data[out->size - 1] != ' ')
            TD_CHECK(td_buffer_append(out, " ", 1));
        if (phonemes) TD_CHECK(td_buffer_append(out, phonemes, strlen(phonemes)));
        text += used;
        bytes -= used;
    }
    return TD_OK;
}

/* Writes a piece, spelled, with what the voice knows. */
static td_status adapt_piece(const td_script *s, const td_buffer *spelled, td_script_piece *piece,
                             td_left_outs *left_outs, bool *has_some)
{
    td_buffer adapted = {0};
    td_status status = TD_OK;
    TD_TRY(td_adapt_text(s->tokenizer, spelled->data, spelled->size, &adapted, left_outs));
    TD_TRY(td_tokenizer_encode_spelled(s->tokenizer, s->lang, adapted.data, adapted.size, &piece->tokens));
    *has_some = has_letter(adapted.data, adapted.size);
    if (td_tokenizer_kind(s->tokenizer) == TD_TOKENS_PHONEMES) goto fail;
    free(piece->text);
    piece->text = adapted.data;
    adapted = (td_buffer){0};
fail:
    td_buffer_free(&adapted);
    return status;
}

static void free_piece(td_script_piece *piece)
{
    free(piece->text);
    td_tokens_free(&piece->tokens);
    *piece = (td_script_piece){0};
}

/* *out: owned, free_piece(); its text is NULL where there is nothing to say. `left_outs`: NULL if nothing may be left
 * out. */
static td_status make_piece(const td_script *s, const char *text, size_t bytes, td_left_outs *left_outs,
                            td_script_piece *out)
{
    bool has_some = has_letter(text, bytes);
    td_buffer spelled = {0};
    td_status status = TD_OK;
    *out = (td_script_piece){.rate = 1, .pause_s = NO_PAUSE};
    if (!has_some) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&out->text, bytes + 1));
    memcpy(out->text, text, bytes);
    TD_TRY(spell(s, text, bytes, &spelled));
    TD_TRY(td_tokenizer_encode_spelled(s->tokenizer, s->lang, spelled.data, spelled.size, &out->tokens));
    if (out->tokens.n_unknown > 0 && left_outs) TD_TRY(adapt_piece(s, &spelled, out, left_outs, &has_some));
    TD_TRY(check_tokens(&out->tokens, &s->model));
fail:
    td_buffer_free(&spelled);
    if (status != TD_OK || !has_some) free_piece(out);
    return status;
}

/* What there is of two halves, in the place of piece `i`, which goes; room is made for one more. */
static void replace_piece(td_script *s, size_t i, td_script_piece halves[2])
{
    td_script_piece *piece = &s->pieces[i];
    td_script_piece *last = &halves[halves[1].text ? 1 : 0];
    halves[0].rate = halves[1].rate = piece->rate;
    last->end = piece->end;
    last->pause_s = piece->pause_s;
    free_piece(piece);
    *piece = halves[halves[0].text ? 0 : 1];
    if (!halves[0].text || !halves[1].text) return;
    memmove(piece + 2, piece + 1, (s->count - i - 1) * sizeof *piece);
    piece[1] = halves[1];
    s->count++;
}

td_status td_script_split(td_script *script, size_t i, bool *is_split)
{
    const char *text = script->pieces[i].text;
    td_script_piece halves[2] = {{0}};
    td_left_outs left_outs = {0}; /* told already */
    td_piece_end end;
    td_status status = TD_OK;
    const size_t cut = td_split_middle(text, script->lang, &end);
    const size_t second = cut + strspn(text + cut, " ");
    *is_split = false;
    if (cut == 0) return TD_OK;
    TD_TRY(td_alloc_grow(&script->pieces, &script->capacity, script->count + 1, sizeof *script->pieces));
    TD_TRY(make_piece(script, text, cut, &left_outs, &halves[0]));
    TD_TRY(make_piece(script, text + second, strlen(text + second), &left_outs, &halves[1]));
    halves[0].end = end;
    *is_split = halves[0].text || halves[1].text;
    if (*is_split) replace_piece(script, i, halves);
fail:
    if (status != TD_OK) free_piece(&halves[0]);
    td_left_outs_free(&left_outs);
    return status;
}

/* Pieces from number `i` on that have more tokens than the voice takes. */
static td_status shorten_pieces(td_script *s, size_t i)
{
    bool is_split;
    while (i < s->count) {
        if (s->pieces[i].tokens.count <= s->model.max_tokens) {
            i++;
            continue;
        }
        TD_CHECK(td_script_split(s, i, &is_split));
        TD_REFUSE_IF(!is_split, TD_ERR_LIMIT, "'%s' has %zu tokens, and the voice takes %u",
                     s->pieces[i].text, s->pieces[i].tokens.count, s->model.max_tokens);
    }
    return TD_OK;
}

static td_status add_piece(writer *w, const char *text, size_t bytes, td_piece_end end)
{
    td_script *s = w->out;
    td_script_piece piece = {0};
    td_status status = TD_OK;
    TD_TRY(make_piece(s, text, bytes, w->options->is_strict ? NULL : &w->left_outs, &piece));
    if (!piece.text) return TD_OK;
    piece.end = end;
    piece.rate = w->rate;
    TD_TRY(td_alloc_grow(&s->pieces, &s->capacity, s->count + 1, sizeof *s->pieces));
    s->pieces[s->count++] = piece;
    return shorten_pieces(s, s->count - 1);
fail:
    free_piece(&piece);
    return status;
}

/* Signs that the normaliser drops; valid UTF-8. */
static td_status count_signs(writer *w, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (td_normalizer_drops(w->normalizer, codepoint))
            TD_CHECK(td_left_outs_count(&w->left_outs, codepoint));
    }
    return TD_OK;
}

static size_t count_characters(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* The next piece of a text, with the sentences behind it that it has room for, where the voice wants that. */
static bool next_piece(const writer *w, const char *text, size_t *at, td_piece *out)
{
    const td_lang lang = w->out->lang;
    if (!td_split_next(text, lang, w->max_characters, at, out)) return false;
    while (w->out->model.piece_characters) {
        td_piece next;
        size_t behind = *at;
        if (!td_split_next(text, lang, w->max_characters, &behind, &next)) break;
        const size_t bytes = next.first + next.bytes - out->first;
        if (count_characters(text + out->first, bytes) > w->max_characters) break;
        *out = (td_piece){.first = out->first, .bytes = bytes, .end = next.end};
        *at = behind;
    }
    return true;
}

static td_status add_paragraph(writer *w, const char *text, size_t bytes)
{
    const bool takes_phonemes = w->voice->token_kind == TD_TOKENS_PHONEMES;
    const char *spoken;
    td_piece piece;
    td_buffer respelled = {0};
    const size_t before = w->out->count;
    td_status status = TD_OK;
    TD_TRY(td_unicode_check(text, bytes, NULL));
    if (w->options->lexicon) {
        TD_TRY(td_lexicon_apply(w->options->lexicon, takes_phonemes, text, bytes, &respelled, &w->n_unread));
        text = respelled.data;
        bytes = respelled.size;
    }
    TD_TRY(count_signs(w, text, bytes));
    TD_TRY(td_normalizer_run(w->normalizer, text, bytes, &spoken));
    for (size_t at = 0; next_piece(w, spoken, &at, &piece);)
        TD_TRY(add_piece(w, spoken + piece.first, piece.bytes, piece.end));
    if (w->out->count > before) w->out->pieces[w->out->count - 1].end = TD_PIECE_PARAGRAPH;
fail:
    td_buffer_free(&respelled);
    return status;
}

/* Bytes up to the next empty line; *behind: with it and all that follow. */
static size_t find_paragraph(const char *text, size_t bytes, size_t *behind)
{
    for (size_t i = 0; i + 1 < bytes; i++) {
        size_t j = i + 1;
        if (text[i] != '\n') continue;
        while (j < bytes && strchr(" \t\r", text[j]) && text[j])
            j++;
        if (j >= bytes || text[j] != '\n') continue;
        *behind = j;
        return i;
    }
    *behind = bytes;
    return bytes;
}

static td_status add_text(writer *w, const char *text, size_t bytes)
{
    for (size_t at = 0, behind; at < bytes; at += behind) {
        const size_t n = find_paragraph(text + at, bytes - at, &behind);
        TD_CHECK(add_paragraph(w, text + at, n));
    }
    return TD_OK;
}

/* How the last piece of a part of SSML ends: as an element says, else as its last mark does. */
static td_piece_end find_part_end(const td_ssml_part *part, const char *text)
{
    const char last = text[strlen(text) - 1];
    if (part->end == TD_SSML_PARAGRAPH) return TD_PIECE_PARAGRAPH;
    if (part->end == TD_SSML_SENTENCE || strchr(".!?", last)) return TD_PIECE_SENTENCE;
    return strchr(",;:", last) ? TD_PIECE_CLAUSE : TD_PIECE_WITHIN;
}

/* A part of SSML, whose pause goes to its last piece, or before the first piece of all. */
static td_status add_part(writer *w, const td_ssml_part *part)
{
    td_script *s = w->out;
    const size_t before = s->count;
    w->rate = s->model.sets_speed ? part->rate : 1;
    w->has_rate |= w->rate != part->rate;
    TD_CHECK(add_text(w, part->text, strlen(part->text)));
    if (s->count == 0 && part->pause_s > 0) s->lead_s += part->pause_s;
    if (s->count == 0) return TD_OK;
    td_script_piece *last = &s->pieces[s->count - 1];
    if (s->count > before) last->end = find_part_end(part, last->text);
    if (part->pause_s >= 0)
        last->pause_s = part->pause_s + (s->count == before && last->pause_s > 0 ? last->pause_s : 0);
    return TD_OK;
}

static td_status add_ssml(writer *w, const char *text, size_t bytes)
{
    td_ssml ssml;
    td_status status = TD_OK;
    TD_TRY(td_ssml_read(text, bytes, &ssml));
    for (size_t i = 0; i < ssml.count; i++)
        TD_TRY(add_part(w, &ssml.parts[i]));
    if (w->out->count > 0) w->out->pieces[w->out->count - 1].end = TD_PIECE_PARAGRAPH;
    if (*ssml.ignored) td_log_warn("SSML: %s is not known here, and was passed over", ssml.ignored);
    if (w->has_rate)
        td_log_warn("SSML: a voice of family %s decides by itself how fast it speaks; the rate is not used",
                    w->voice->model.family->name);
fail:
    td_ssml_free(&ssml);
    return status;
}

/* One warning for all that was left out; an error if nothing is left. */
static td_status tell_left_outs(const writer *w)
{
    char names[600];
    td_left_outs_describe(&w->left_outs, names, sizeof names);
    TD_REFUSE_IF(w->out->count == 0 && *names, TD_ERR_CONFIG,
                 "the text has nothing to say that the voice has learnt; left out: %s", names);
    TD_REFUSE_IF(w->out->count == 0, TD_ERR_CONFIG, "the text has nothing to say; give one with words in it");
    TD_REFUSE_IF(*names && w->options->is_strict, TD_ERR_FORMAT, "the text has signs without a word: %s",
                 names);
    if (*names) td_log_warn("left out, since the voice has not learnt it: %s", names);
    TD_REFUSE_IF(
        w->n_unread > 0 && w->options->is_strict, TD_ERR_FORMAT,
        "the lexicon has phonemes for %zu words of the text, and the voice was trained with letters; "
        "respell them",
        w->n_unread);
    if (w->n_unread > 0)
        td_log_warn(
            "%zu words were said as they are written: the lexicon has phonemes for them, and the voice was "
            "trained with letters; respell them",
            w->n_unread);
    return TD_OK;
}

td_status td_script_make(const td_checkpoint_info *voice, const td_script_options *options, const char *text,
                         size_t bytes, td_script *out)
{
    writer w = {.voice = voice, .options = options, .rate = 1, .out = out};
    const char *language = options->language;
    td_status status = TD_OK;
    *out = (td_script){.lexicon = options->lexicon};
    if (!language || !*language || strcmp(language, "auto") == 0) language = voice->language;
    TD_FAIL_IF(bytes > TD_SCRIPT_MAX_BYTES, TD_ERR_CONFIG,
               "a text of %zu bytes; at most %d at a time, so split it and speak the parts", bytes,
               TD_SCRIPT_MAX_BYTES);
    TD_TRY(td_lang_parse(language, &out->lang));
    TD_TRY(open_writer(&w));
    TD_TRY(td_ssml_is(text, bytes) ? add_ssml(&w, text, bytes) : add_text(&w, text, bytes));
    TD_TRY(tell_left_outs(&w));
fail:
    close_writer(&w);
    if (status != TD_OK) td_script_free(out);
    return status;
}

void td_script_free(td_script *script)
{
    for (size_t i = 0; i < script->count; i++)
        free_piece(&script->pieces[i]);
    free(script->pieces);
    td_tokenizer_destroy(script->tokenizer);
    td_symbols_destroy(script->symbols);
    td_romanizer_destroy(script->romanizer);
    *script = (td_script){0};
}
