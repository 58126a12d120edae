/* Prints the token ids of each line of the standard input, in English: `bpe_tokens tokenizer.json`. Built by
 * bpe.py, which compares them with those of another library.
 */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer.h"

int main(int argc, char **argv)
{
    static char line[1 << 16];
    td_tokenizer *tokenizer = NULL;
    td_tokens tokens = {0};
    td_status status = argc == 2 ? td_tokenizer_open_bpe(argv[1], &tokenizer) : TD_ERR_ARGUMENT;
    while (status == TD_OK && fgets(line, sizeof line, stdin)) {
        status = td_tokenizer_encode(tokenizer, TD_LANG_EN, line, strcspn(line, "\n"), &tokens);
        for (size_t i = 0; status == TD_OK && i < tokens.count; i++)
            printf("%s%d", i ? " " : "", (int)tokens.ids[i]);
        putchar('\n');
    }
    if (status != TD_OK)
        fprintf(stderr, "bpe_tokens: %s\n", argc == 2 ? td_error_last()->message : "one file");
    td_tokens_free(&tokens);
    td_tokenizer_destroy(tokenizer);
    return status != TD_OK;
}
