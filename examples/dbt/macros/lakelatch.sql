{# What dbt-spark's statements need to be those of a registered warehouse. #}

{% macro spark__file_format_clause() %}{# every table of the warehouse has one format #}{% endmacro %}

{% macro spark__create_view_as(relation, sql) %}
  {# the staging view of a snapshot; a warehouse has no views #}
  create or replace temporary view {{ relation.include(schema=false) }} as
  {{ sql }}
{% endmacro %}
